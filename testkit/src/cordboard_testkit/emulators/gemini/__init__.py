"""Google's Gemini, text and Live, emulated."""
