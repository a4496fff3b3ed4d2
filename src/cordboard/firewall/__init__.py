"""The telephone firewall: a pure policy that decides about acts of calls, outside every model.

`numbers` reads telephone numbers, `policy` decides by the section `firewall`, `counts` adds up
calls, minutes and cost for the caps, and `store` keeps the counts over a restart. Decisions are
asked for by the desk (`cordboard.tools.desk`), the call's line, and the admission of calls
(`cordboard.calls`).
"""
