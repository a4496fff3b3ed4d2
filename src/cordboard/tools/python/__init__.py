"""Tools of `kind: python`: functions of installed modules."""

from cordboard.tools.python.loading import Functions, load_functions
from cordboard.tools.python.tool import python_tools

__all__ = ["Functions", "load_functions", "python_tools"]
