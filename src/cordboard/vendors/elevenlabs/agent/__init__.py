"""ElevenLabs Agents: its protocol (`protocol`) and the protocol's parts."""
