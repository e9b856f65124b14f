"""Hadoop's configuration files."""

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

Properties = Mapping[str, str | int | float | bool | Path]


def write_properties(path: Path, properties: Properties) -> None:
    """Write properties as a Hadoop `*-site.xml`."""
    root = ElementTree.Element("configuration")
    for name, value in properties.items():
        entry = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(entry, "name").text = name
        ElementTree.SubElement(entry, "value").text = _text(value)
    ElementTree.indent(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _text(value: str | int | float | bool | Path) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
