"""Files and the terminal: compressed streams, atomic writing, tables of examples, sample files.

`read` reads back what `nelson sample` wrote. Import everything else from the modules: `tables`
reads examples and samples in any format, `sample_files` writes samples, `atomic` replaces files.
"""

from nelson.io.sample_files import read

__all__ = ["read"]
