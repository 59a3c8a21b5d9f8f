"""The parts of `nelson.learn`: data in, moments, steps, checkpoints, what is reported.

| file             | holds                                                                 |
|------------------|-----------------------------------------------------------------------|
| `data.py`        | examples, checked against the formula and packed; their moments       |
| `readers.py`     | arrays, tables and files -> Boolean matrix                            |
| `settings.py`    | every knob, and the presets                                           |
| `draw.py`        | the model's side: samples of the present theta, by any sampler        |
| `group.py`       | the processes that learn together; one, as a rule                     |
| `shares.py`      | samples drawn by several ranks                                        |
| `noise.py`       | is a moment gap noise? correlations, chi-square                       |
| `steps.py`       | SGD and Adam                                                          |
| `newton.py`      | the default: natural gradient, growing m, averaging, stopping         |
| `loop.py`        | Algorithm 2 around them: budget, history, checkpoints                 |
| `state.py`       | where a run is: for checkpoints, and for the other ranks              |
| `conditional.py` | theta = net(context), in torch                                        |
| `checkpoint.py`  | safetensors + JSON, renamed into place                                |
| `history.py`     | what happened in each iteration; tables, files, the learning curve    |
| `watch.py`       | progress bar and TensorBoard                                          |
"""
