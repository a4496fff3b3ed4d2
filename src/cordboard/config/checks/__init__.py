"""What must fit together in a configuration, beyond what each of its sections may say."""
