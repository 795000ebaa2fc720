"""Notebooks: `%load_ext vde_dagster`, with what is asked pinned to versions of environments.

`workspace` keeps the pins, `results` shows rows and plans, `magics` are `%vde`, `%%vde` and
`%%model`, `extension` brings them into a notebook. A notebook may be a model: `model_file` reads
it (`cells`), `step` lets a kernel run it, whose `step_workspace` asks for rows.
"""
