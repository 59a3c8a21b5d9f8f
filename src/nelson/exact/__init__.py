"""Exact answers for formulas that are small, narrow, or functions of few inputs.

`law` is the door: it decides how a formula is solved, and returns one object that counts, sums,
draws and maximises, or the reason why not. `queries` has `nelson.count` and `nelson.mode`. Behind
them: `reduction` (preprocessing and components), `enumerated` (sums over all structures), `listing`
(the structures), `rows_by_inputs`, `compiled` (circuits), `counter` (ganak), `mode` (MaxSAT).
`routes.Reason` is what is returned where there is no answer. Also `solver` (CDCL, and clauses that
contradict each other), `hull` (can these shares occur?), `compile_guess`, `preprocess`. Only
`exact.circuit` starts a compiler. Everything that may take long gets a `nelson.budget.Budget`.
"""
