"""Programs next to the command line: the editor, notebooks, and the server of `vde serve`."""
