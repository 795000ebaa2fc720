"""Notebooks: `%load_ext vde_dagster`, with reads pinned to versions of environments.

`extension` loads the magics `%vde`, `%%vde` and `%%model` (`magics`). `workspace` keeps the pins,
and `results` shows rows and plans. A notebook may also be a model: `model_file` reads it (`cells`),
`step` runs it in a kernel, and `step_workspace` requests rows in the kernel.
"""
