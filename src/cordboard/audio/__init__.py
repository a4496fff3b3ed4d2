"""Pure sound: formats, G.711, resampling, WAV, levels, voice activity, the pacer; no calls."""
