#!/usr/bin/env bash
# Writes what is in an image as SPDX 2.3 JSON: sbom.sh VERSION CREATED FILE...
# A FILE is a Debian package, a wheel (NAME-VERSION-...) of NVIDIA's from PyPI, or libnvjpeg.so.13 of a version that is not known.
# Licences are not read from the packages; each one's own words are in /usr/share/doc/NAME/copyright of the image.
set -euo pipefail
version=$1 created=$2
shift 2
export LC_ALL=C

# A version may hold what an SPDX identifier must not, and what a URL must not hold as it is.
identifier() { printf 'SPDXRef-%s' "${1//[^A-Za-z0-9.-]/-}"; }
escaped() { printf '%s' "$1" | sed 's/%/%25/g; s/+/%2B/g; s/:/%3A/g; s/~/%7E/g'; }

cat <<END
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "convoyd-$version",
  "documentNamespace": "https://spdx.org/spdxdocs/convoyd-$version-$(cat "$@" | sha256sum | cut -c1-32)",
  "creationInfo": {"created": "$created", "creators": ["Tool: convoyd packaging/oci/sbom.sh"]},
  "packages": [
END
separator=
relations=
for file; do
  license=NOASSERTION
  case $file in
  *.deb)
    # shellcheck disable=SC2016 # the format is dpkg-deb's
    IFS='|' read -r name number architecture < <(dpkg-deb -W --showformat='${Package}|${Version}|${Architecture}\n' "$file")
    distribution='debian/'
    if [[ $name == convoy* ]]; then distribution='' license=MIT; fi
    purl="pkg:deb/$distribution$name@$(escaped "$number")?arch=$architecture"
    ;;
  *.whl)
    IFS=- read -r name number _ <<<"${file##*/}"
    name=${name//_/-}
    purl="pkg:pypi/$name@$(escaped "$number")"
    ;;
  *)
    name=nvidia-nvjpeg number=
    purl="pkg:generic/$name"
    ;;
  esac
  id=$(identifier "$name")
  printf '%s    {"SPDXID": "%s", "name": "%s", %s"downloadLocation": "NOASSERTION", "filesAnalyzed": false,\n' \
    "$separator" "$id" "$name" "${number:+\"versionInfo\": \"$number\", }"
  printf '     "licenseConcluded": "NOASSERTION", "licenseDeclared": "%s", "copyrightText": "NOASSERTION",\n' "$license"
  printf '     "checksums": [{"algorithm": "SHA256", "checksumValue": "%s"}],\n' "$(sha256sum "$file" | cut -d' ' -f1)"
  printf '     "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "%s"}]}' "$purl"
  relations+="$separator    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"$id\"}"
  separator=$',\n'
done
printf '\n  ],\n  "relationships": [\n%s\n  ]\n}\n' "$relations"
