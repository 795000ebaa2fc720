"""Notebooks: `%load_ext vde_dagster`, with reads pinned to versions of environments.

`workspace` keeps the pins, `results` shows rows and plans, `magics` are `%vde`, `%%vde` and
`%%model`, `extension` loads them into a notebook. A notebook may be a model: `model_file` reads
it (`cells`), `step` runs it in a kernel, whose `step_workspace` requests rows.
"""
