"""Tools of `kind: http`: each makes one request to a web service and picks data from the answer."""
