"""Throughput compared with the floor, and a program as users write it compared with the fastest form."""
