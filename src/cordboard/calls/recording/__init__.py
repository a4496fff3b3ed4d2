"""The recording of a call: what is recorded, as which file, and for how long it is kept."""
