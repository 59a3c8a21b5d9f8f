"""What runs in a child process (`nelson.process.child`): one plain script for each package.

A script imports its package inside a function, and of nelson only modules without dependencies: a
child process starts fast.
"""
