"""Files and the terminal: compressed streams, tables of examples, sample files, progress.

Import from its modules; `tables.read` reads examples in any format, `sample_files` writes samples.
"""
