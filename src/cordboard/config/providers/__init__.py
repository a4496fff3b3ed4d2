"""What `providers:` may say: one file per type of provider, and the parts of pipelines."""
