"""Pure sound: formats, G.711, resampling, WAV, levels, voice activity, the 20 ms pacer. Knows no call."""
