"""JSON Schemas from outside: made safe, checked against, and said in other languages."""
