"""Shared by every other package: errors, numbers, words, tables, options.

    errors       the exception tree, with the exit code of each (1, 2, 3)
    config       each option of the engine and of a run, declared once
    quantities   formats of bytes, seconds and numbers of parameters
    tables       a table with the evidence of each column
    language     the current language, and the texts beside the code that uses them
    tiers        device, host, disk, and the links between them
    version      this version

It does not depend on ranks or traces. Begin with `config.option`.
"""
