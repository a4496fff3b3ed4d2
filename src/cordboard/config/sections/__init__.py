"""Base sections: every vendor's, plug-in's and tool's section is one of these."""
