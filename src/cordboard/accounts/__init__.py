"""People and programs of the admin port: users, sessions, keys, their rights, and the audit."""
