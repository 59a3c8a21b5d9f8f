"""Drawing samples: options -> problem -> plan -> engine -> samples, each with a guarantee.

Import `sample` and `stream` from `sample_stream`, samplers by name from `registry`.
"""
