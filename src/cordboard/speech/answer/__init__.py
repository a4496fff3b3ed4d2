"""Answer classification: has a person answered our call, a machine, a tone, or silence?

`classifier` judges from sound and words; `tones` follows lines in the spectrum, `phrases` reads
words. All of it is pure: frames and texts in, a verdict out; no socket, no clock, no task.
"""
