"""The steps after a call, retried until they succeed."""
