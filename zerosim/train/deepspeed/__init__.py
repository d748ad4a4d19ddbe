"""DeepSpeed's dialect: its configuration, and what a loop written for it calls.

    config/        the keys of a configuration: honoured, ignored or refused; needs no torch
    initialize     `initialize` with zerosim's arguments or with DeepSpeed's
    distributed    `init_distributed`
    engine         the engine with DeepSpeed's names
    optimizer, scheduler, dataloader    what `initialize` returns beside it

The names are those of DeepSpeed 0.19.8. What DeepSpeed itself would send with a configuration says
`zerosim.systems.deepspeed.explanation`.
"""
