"""Asterisk: ARI control, AudioSocket media, and the calls they offer."""
