"""Tools of `kind: workflow`: steps that are other tools of the toolbox."""

from cordboard.tools.workflow.making import WorkflowMaker
from cordboard.tools.workflow.tool import WorkflowTool

__all__ = ["WorkflowMaker", "WorkflowTool"]
