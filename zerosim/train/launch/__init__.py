"""Starting a run: the ranks, and what each of them does.

forkserver    a process that has imported PyTorch and forks ranks: its owner's side
forking       what that process does
rendezvous    where they find each other; `reachable` tells who else could come
ranks         starting them, waiting for them, ending them
launcher, worker, job   a run of zerosim's own: from the command line, and on a rank
calls         a function on ranks, for tests
command, injected   somebody's own command, whose ranks are traced
"""
