"""The sandbox's server process: moto's server with a guard and a snapshot."""
