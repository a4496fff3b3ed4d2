"""Tools of `kind: workflow`: steps that are other tools of the toolbox."""

from cordboard.tools.workflow.tool import WorkflowMaker, WorkflowTool

__all__ = ["WorkflowMaker", "WorkflowTool"]
