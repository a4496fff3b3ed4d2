"""The telephone firewall: a pure policy that decides about acts of calls, outside every model.

`numbers` reads telephone numbers, `policy` decides by the section `firewall`, `counts` adds up what
the caps limit and `store` keeps it over a restart. The seats where decisions are asked for are the
desk (`cordboard.tools.desk`), the call's line and the admission of calls (`cordboard.calls`).
"""
