"""Configuration files of Hadoop's, such as yarn-site.xml and capacity-scheduler.xml."""

from xml.etree import ElementTree


def properties_in(document: str | bytes) -> dict[str, str]:
    """The properties of such a file, by their names.

    Raises:
        ValueError: it is not XML, or not such a file.
    """
    try:
        root = ElementTree.fromstring(document)
    except ElementTree.ParseError as problem:
        raise ValueError(f"{problem}: must be XML") from None
    if root.tag != "configuration":
        raise ValueError(f"<{root.tag}>: must be <configuration>, as in files of Hadoop")
    pairs = ((entry.findtext("name"), entry.findtext("value")) for entry in root.iter("property"))
    return {name.strip(): value.strip() for name, value in pairs if name is not None and value is not None}
