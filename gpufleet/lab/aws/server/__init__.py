"""The process behind the sandbox: moto's server with a guard in front and a snapshot behind."""
