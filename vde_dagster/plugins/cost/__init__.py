"""What work costs: `vde cost` says what was spent and saved, budgets stop what costs too much.

`spending` adds up fills by model, plan, environment, day or month, `accuracy` holds what earlier
fills would have told of each against what happened, `budgets` is the gate, `commands` the command.
"""
