"""Contracts: one suite for each port, run on fakes and real adapters alike."""
