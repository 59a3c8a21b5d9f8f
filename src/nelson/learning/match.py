"""The law of maximum entropy with given shares."""


def match(*args, **options):
    raise NotImplementedError
