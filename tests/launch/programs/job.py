"""A rank of a job that torchrun starts: several runs one after another."""

import sys

from zerosim.launch.job import Job
from zerosim.launch.worker import run_guarded

if error := run_guarded(Job.decode(sys.argv[1])):
    raise error
