"""Tools that act on the call itself: hanging up, transferring."""
