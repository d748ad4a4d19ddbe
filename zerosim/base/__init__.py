"""Shared by every other package: errors, numbers, words, tables, options.

    errors       the exception tree: what becomes of each is said there (exit codes 1, 2, 3)
    config       each option of the engine and of a run, declared once
    quantities   how bytes, seconds and parameters are written
    tables       a table with the evidence of each column
    language     the language that is spoken, and the words beside the code that says them
    tiers        device, host, disk, and the links between them
    version      this version

Given nothing, it knows nothing of ranks or traces. Begin with `config.option`.
"""
