"""Tools of `kind: http`: one request to a web service each, and what of the answer counts."""
