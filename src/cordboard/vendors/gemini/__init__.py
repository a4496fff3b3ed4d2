"""Google Gemini: Live and generateContent."""
