"""JSON Schemas from outside: made safe, used for checks, and converted for providers."""
