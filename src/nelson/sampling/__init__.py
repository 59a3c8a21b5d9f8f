"""Drawing samples: options -> plan -> sampler -> blocks -> samples with a guarantee.

Other rooms import `sample`, `stream` and `draw` from `sample_stream`, `Options` from `options`,
`choose` from `choose` (which way "auto" goes), samplers by name from `registry`, `report` from
`report`, and `Samples` from `samples`.
"""
