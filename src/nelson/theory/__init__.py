"""What is known about a formula before anything is drawn: the local lemma and expected work.

Import criteria and `expected_resamplings` from `local_lemma`.
"""
