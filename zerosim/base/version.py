"""The version of zerosim, in one place."""

VERSION = "0.1.0.dev0"
