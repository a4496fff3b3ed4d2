"""One folder for each vendor: its wire protocols, voices, recognisers and language models."""
