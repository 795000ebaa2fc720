"""Exports: what a project is, and what happens to it, in the forms of other systems.

`openlineage` follows the state's outbox and tells a receiver of fills, audits and publications. The
libraries of receivers are imported by those who export, and by nobody else.
"""
