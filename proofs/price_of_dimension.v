(* Pages 10 and 11: What it costs to be sharp (Theorem 10.4), What is enough (Proposition 11.6) *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
Require Import definitions.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Theorem 10.4 *)
Module Law.
Section Law.
Variable F : rcfType.
(* 2 |x . y| <= |x|^2 + |y|^2 *)
Lemma dot_le d (x y : 'rV[F]_d) : dot x y *+ 2 <= dot x x + dot y y.
Proof.
have := dot_ge0 (x - y); rewrite !dotE [dot y x]dotC opprK.
have -> : dot x x - dot x y + (- dot x y + dot y y) = dot x x + dot y y - dot x y *+ 2.
  by rewrite mulr2n opprD !addrA; rewrite [RHS](ACl (1*3*4*2)).
by rewrite subr_ge0.
Qed.

Section Perm.
Variables (n d : nat) (T : F) (pi : 'I_n -> 'I_n).
Hypotheses (T0 : 0 < T) (piI : injective pi).
(* Q, K meet the permutation with gap T at cost s; keys have norm at most 1 *)
(* Definition 10.1 for a permutation pi: norms of keys at most 1, of queries at most s, gap T. *)
Definition meets s (Q K : 'I_n -> 'rV[F]_d) := [/\ forall j, dot (K j) (K j) <= 1,
   forall i, dot (Q i) (Q i) <= s ^+ 2 & forall i l, l != pi i -> T <= dot (Q i) (K (pi i)) - dot
     (Q i) (K l)].
(* A spherical code: n unit vectors with inner products at most mu. *)
Definition code mu (C : 'I_n -> 'rV[F]_d) := (forall j, dot (C j) (C j) = 1) /\ forall j l, l !=
  j -> dot (C j) (C l) <= mu.

(* Theorem 10.4, enough: q_i = s k_pi(i). *)
Lemma enough s (C : 'I_n -> 'rV[F]_d) : 0 < s -> code (1 - T / s) C ->
  meets s (fun i => s *: C (pi i)) C.
Proof.
move=> s0 [one mu]; split=> [j|i|i l li]; first by rewrite one.
  by rewrite !dotE one mulr1 -expr2.
rewrite !dotE -mulrBr one mulrC -ler_pdivr_mulr // ler_subr_addl -ler_subr_addr; exact: mu.
Qed.
(* push out: some y = x + t u with t >= 0 on the sphere of radius 2 *)
(* Step 3. Push a point outwards to the sphere of radius 2. *)
Lemma push (x u : 'rV[F]_d) : dot u u = 1 -> dot x x <= 4%:R -> exists2 t, 0 <= t & dot (x + t *:
  u) (x + t *: u) = 4%:R.
Proof.
move=> u1 x4; pose b := dot x u; pose q := b ^+ 2 + (4%:R - dot x x).
have q0 : 0 <= q by rewrite addr_ge0 ?sqr_ge0 ?subr_ge0.
exists (Num.sqrt q - b).
  have bq : `|b| <= Num.sqrt q by rewrite -sqrtr_sqr ler_wsqrtr // ler_addl subr_ge0.
  by rewrite subr_ge0 (le_trans (ler_norm b) bq).
rewrite !dotE u1 mulr1 [dot u x]dotC -/b; set t := _ - b.
have -> : dot x x + t * b + (t * b + t * t) = dot x x + ((t + b) ^+ 2 - b ^+ 2).
  by rewrite sqrrD addrK mulr2n -!addrA; congr (_ + _); rewrite [RHS]addrC -addrA expr2.
by rewrite /t subrK sqr_sqrtr // /q addrC addrAC subrr add0r subrK.
Qed.

(* Theorem 10.4, needed. Steps 1 to 3 of the page; that pushing out keeps distances is seen from
   (x_j - x_l) . u_j >= 0. *)
Lemma needed s (Q K : 'I_n -> 'rV[F]_d) : (1 < n)%N -> 0 < s -> meets s Q K -> exists C : 'I_n ->
  'rV[F]_d, code (1 - T / s) C.
Proof.
move=> n1 s0 [K1 Qs gap].
have [g gK piK] : bijective pi by exact: injF_bij.
pose q j := Q (g j); pose m j := Num.sqrt (dot (q j) (q j)).
have gap' j l : l != j -> T <= dot (q j) (K j) - dot (q j) (K l).
  by move=> lj; rewrite -{2}(piK j); apply: gap; rewrite piK.
have m2 j : m j ^+ 2 = dot (q j) (q j) by rewrite sqr_sqrtr ?dot_ge0.
have other j : exists l : 'I_n, l != j.
  have : (0 < #|predC1 j|)%N by rewrite cardC1 card_ord -ltnS prednK // ltnW.
  by case/card_gt0P => l; rewrite inE; exists l.
have m0 j : 0 < m j.
  rewrite lt_neqAle eq_sym sqrtr_ge0 andbT; apply/negP => /eqP z.
  have qq : dot (q j) (q j) = 0 by rewrite -m2 z expr0n.
  have q00 : q j = 0.
    apply/rowP => c; rewrite mxE; apply/eqP; rewrite -sqrf_eq0 expr2; apply/eqP.
    have nn (i : 'I_d) : 0 <= q j 0 i * q j 0 i by rewrite -expr2 sqr_ge0.
    exact: (@psumr_eq0P _ _ _ _ (fun i _ => nn i) qq c isT).
  have [l lj] := other j; have := gap' j l lj; rewrite q00 /dot !big1 ?subrr => [|c _|c _];
    rewrite ?mxE ?mul0r //.
  by rewrite leNgt T0.
have ms j : m j <= s.
  by rewrite -ler_sqr ?nnegrE ?(ltW (m0 j)) ?(ltW s0) // m2; exact: Qs.
pose u j := (m j)^-1 *: q j; pose h := T / s.
have u1 j : dot (u j) (u j) = 1.
  by rewrite !dotE -m2 expr2 mulKf ?mulVf // gt_eqF.
have hu j l : l != j -> h <= dot (u j) (K j - K l).
  move=> lj; rewrite !dotE -mulrBr /h mulrC; apply: (@le_trans _ _ ((m j)^-1 * T)).
    by rewrite ler_pmul2r // lef_pinv ?posrE.
  by rewrite ler_pmul2l ?invr_gt0 ?gap'.
clearbody u; have h0 : 0 <= h by rewrite divr_ge0 ?ltW.
pose x j := K j + u j.
have x4 j : dot (x j) (x j) <= 4%:R.
  rewrite /x !dotE u1 [dot (u j) _]dotC; have := dot_le (K j) (u j); rewrite u1 => k2.
  apply: (@le_trans _ _ (1 + (1 + 1) + 1)); last by rewrite -(natrD _ 1 1) -(natrD _ 1 2) -(natrD
    _ 3 1) lexx.
  rewrite addrA ler_add2r -addrA ler_add ?K1 // -mulr2n; apply: le_trans k2 _; rewrite ler_add2r;
    exact: K1.
have [t t0 tE] : exists2 t : 'I_n -> F, forall j, 0 <= t j & forall j, dot (x j + t j *: u j) (x
  j + t j *: u j) = 4%:R.
  have ex j : exists t, (0 <= t) && (dot (x j + t *: u j) (x j + t *: u j) == 4%:R).
    by have [t t0 e] := push (u1 j) (x4 j); exists t; rewrite t0 e eqxx.
  by exists (fun j => xchoose (ex j)) => j; have /andP[? /eqP ?] := xchooseP (ex j).
pose y j := x j + t j *: u j.
have uu j l : dot (u j) (u l) <= 1.
  by rewrite -(ler_pmuln2r (ltn0Sn 1)); apply: le_trans (dot_le _ _) _; rewrite !u1 -mulr2n.
(* u_j points from x_l towards x_j *)
have out j l : l != j -> 0 <= dot (x j - x l) (u j).
  move=> lj; rewrite /x opprD addrACA dotDl addr_ge0 //.
    by rewrite dotC; apply: le_trans h0 (hu j l lj).
  by rewrite !dotE u1 subr_ge0 dotC.
have far j l : l != j -> h *+ 8 <= dot (x j - x l) (x j - x l).
  move=> lj; have jl : j != l by rewrite eq_sym.
  set a := K j - K l; set b := u j - u l.
  have -> : x j - x l = a + b by rewrite /x opprD addrACA.
  have ab : h *+ 2 <= dot a b.
    rewrite /b dotDr dotNr mulr2n; apply: ler_add; first by rewrite dotC hu.
    by rewrite dotC -dotNr /a opprB hu.
  clearbody a b; have -> : dot (a + b) (a + b) = dot (a - b) (a - b) + dot a b *+ 4.
    rewrite !dotE [dot b a]dotC opprK.
    have -> : dot a b *+ 4 = dot a b + dot a b + (dot a b + dot a b) by rewrite -!mulr2n -mulrnA.
    rewrite !addrA [X in _ = X + _ + _ + _]addrAC subrK [X in _ = X + _ + _]addrAC subrK.
    by rewrite [X in _ = X + _]addrAC [RHS]addrAC.
  by apply: ler_paddl; rewrite ?dot_ge0 // -[8%N]/(2 * 4)%N mulrnA ler_muln2r.
have farther j l : l != j -> h *+ 8 <= dot (y j - y l) (y j - y l).
  move=> lj; have jl : j != l by rewrite eq_sym.
  apply: le_trans (far j l lj) _; set z := x j - x l; pose w := t j *: u j - t l *: u l.
  have -> : y j - y l = z + w by rewrite /y /z /w opprD addrACA.
  have zw : 0 <= dot z w.
    rewrite /w dotDr dotNr !dotZr /z; apply: addr_ge0; first by rewrite mulr_ge0 ?t0 ?out.
    by rewrite -mulrN -dotNl opprB mulr_ge0 ?t0 ?out.
  clearbody z w; rewrite dotDl !dotDr [dot w z]dotC -addrA ler_addl !addr_ge0 ?dot_ge0 //.
have y4 j : dot (y j) (y j) = 4%:R := tE j.
clearbody y; exists (fun j => 2%:R^-1 *: y j); split=> [j|j l lj].
  by rewrite !dotE y4 -[4%N]/(2 * 2)%N natrM mulKf ?mulVf ?pnatr_eq0.
rewrite !dotE mulrA -invfM -natrM mulrC ler_pdivr_mulr ?ltr0n // mulrBl mul1r mulr_natr.
have := farther j l lj; rewrite !dotE !y4 [dot (y l) _]dotC opprK.
have -> : 4%:R - dot (y j) (y l) + (- dot (y j) (y l) + 4%:R) = (4%:R - dot (y j) (y l)) *+ 2.
  by rewrite mulr2n [- _ + 4%:R]addrC.
by rewrite -[8%N]/(4 * 2)%N mulrnA ler_muln2r /= ler_subr_addl -ler_subr_addr.
Qed.


(* Theorem 10.4 (Exact price): cost s is enough if and only if a code with mu = 1 - T/s exists. *)
Theorem law s : (1 < n)%N -> 0 < s -> (exists Q K, meets s Q K) <-> (exists C : 'I_n -> 'rV[F]_d,
  code (1 - T / s) C).
Proof.
move=> n1 s0; split=> [[Q [K]]|[C cC]]; first exact: needed.
by exists (fun i => s *: C (pi i)), C; apply: enough.
Qed.
(* The least cost. *)
(* Theorem 10.4, (10.3): if mu < 1 is the least number of a code (mu^* of the page), T / (1 - mu)
   is the least cost. *)
Theorem least mu : (1 < n)%N -> mu < 1 -> (exists C : 'I_n -> 'rV[F]_d, code mu C) -> (forall nu
  (C : 'I_n -> 'rV[F]_d), code nu C -> mu <= nu) ->
  (exists Q K, meets (T / (1 - mu)) Q K) /\ forall s Q K, 0 < s -> meets s Q K -> T / (1 - mu) <=
    s.
Proof.
move=> n1 mu1 att low; have m0 : 0 < 1 - mu by rewrite subr_gt0.
split=> [|s Q K s0 me].
  apply/law; rewrite ?divr_gt0 //; have -> // : 1 - T / (T / (1 - mu)) = mu.
  by rewrite invf_div mulrCA divff ?gt_eqF // mulr1 opprB addrC subrK.
have [C /low] := needed n1 s0 me; rewrite ler_subr_addl -ler_subr_addr => h.
by rewrite ler_pdivr_mulr // mulrC -ler_pdivr_mulr.
Qed.
End Perm.
End Law.

(* Instance: two tokens in one dimension; the keys 1 and -1 are a code with mu = -1. *)
Example two_tokens (F : rcfType) : code (-1) (fun j : 'I_2 => const_mx (if j == 0 then 1 else -1)
  : 'rV[F]_1).
Proof.
split=> [j|j l lj]; rewrite /dot big_ord1 !mxE; first by case: (j == 0); rewrite ?mulrNN mulr1.
by case: j l lj => [[|[|j]] ?] [[|[|l]] ?] //= _; rewrite ?mul1r ?mulr1.
Qed.
End Law.

(* Proposition 11.6 *)
Module Line.
Section Line.
Variables (R : realFieldType) (n m : nat).
(* d = 1: keys and queries are numbers *)
(* One dimension: keys and queries are numbers. *)
Definition meets (q : 'I_m -> R) (key : 'I_n -> R) (S : 'I_m -> {set 'I_n}) T :=
  forall i j l, j \in S i -> l \notin S i -> T <= q i * key j - q i * key l.
Definition met (S : 'I_m -> {set 'I_n}) := exists q key T, 0 < T /\ meets q key S T.
(* R_i: S_i if x is in S_i, its complement otherwise. *)
Definition side (S : 'I_m -> {set 'I_n}) (x : 'I_n) (i : 'I_m) : {set 'I_n} := if x \in S i then
  S i else ~: S i.
Definition chain (S : 'I_m -> {set 'I_n}) (x : 'I_n) := forall i i' : 'I_m, side S x i \subset
  side S x i' \/ side S x i' \subset side S x i.
(* rows neither empty nor full *)
Definition proper_rows (S : 'I_m -> {set 'I_n}) := forall i, S i != set0 /\ S i != setT.

(* Only if: x is the least key. *)
Lemma chain_of_met S : (0 < n)%N -> proper_rows S -> met S -> exists x, chain S x.
Proof.
move=> n0 pr [q [key [T [T0 me]]]].
case: (@arg_minP _ _ _ (Ordinal n0) predT key isT) => x _ xmin; exists x.
(* row i sees its side as all keys up to some point *)
have up i j l : j \in side S x i -> l \notin side S x i -> key j < key l.
  rewrite /side; case: ifP => xS; last (rewrite !inE negbK => jS lS; move/negbT: xS => xS).
    move=> jS lS; have xl := lt_le_trans T0 (me _ _ _ xS lS); have jl := lt_le_trans T0 (me _ _ _
      jS lS).
    rewrite -mulrBr in xl; rewrite -mulrBr in jl.
    have q0 : q i < 0.
      rewrite ltNge; apply/negP => q0; have d0 : key x - key l <= 0 by rewrite subr_le0 xmin.
      by have := mulr_ge0_le0 q0 d0; rewrite leNgt xl.
    by move: jl; rewrite nmulr_rgt0 // subr_lt0.
  have lx := lt_le_trans T0 (me _ _ _ lS xS); have lj := lt_le_trans T0 (me _ _ _ lS jS).
  rewrite -mulrBr in lx; rewrite -mulrBr in lj.
  have q0 : 0 < q i.
    rewrite ltNge; apply/negP => q0; have d0 : 0 <= key l - key x by rewrite subr_ge0 xmin.
    by have := mulr_le0_ge0 q0 d0; rewrite leNgt lx.
  by move: lj; rewrite pmulr_rgt0 // subr_gt0.
move=> i i'; have [?|/subsetPn[j jS jS']] := boolP (side S x i \subset side S x i'); [by left |
  right].
apply/subsetP => l lS'; apply/negPn/negP => lS.
by have := lt_trans (up _ _ _ jS lS) (up _ _ _ lS' jS'); rewrite ltxx.
Qed.

(* If: k_j is the number of R_i that do not contain j. *)
Lemma met_of_chain S x : chain S x -> met S.
Proof.
move=> ch; pose k j := #|[set i | j \notin side S x i]|.
have lt i j l : j \in side S x i -> l \notin side S x i -> (k j < k l)%N.
  move=> jS lS; apply: proper_card; apply/properP; split; last by exists i; rewrite !inE ?lS ?jS.
  apply/subsetP => i'; rewrite !inE => jS'.
  by case: (ch i i') => /subsetP sub; [move: (sub _ jS); rewrite (negbTE jS') | apply: contra lS;
    apply: sub].
exists (fun i => if x \in S i then -1 else 1), (fun j => (k j)%:R), 1; split; first exact: ltr01.
move=> i j l jS lS; have := lt i; rewrite /side; case: ifP => xS h.
  by rewrite !mulN1r opprK addrC ler_subr_addr -(natrD _ 1) ler_nat h.
by rewrite !mul1r ler_subr_addr -(natrD _ 1) ler_nat h // !inE ?jS ?negbK.
Qed.
(* Proposition 11.6 (One dimension). *)
Theorem line S : (0 < n)%N -> proper_rows S -> met S <-> exists x, chain S x.
Proof. by move=> n0 pr; split; [exact: chain_of_met | case=> x; exact: met_of_chain]. Qed.
End Line.

(* Instance: three tokens that each attend to themselves form no chain, whatever x is; but the
  rows
   {0} and {0, 1} do, with x = 0. *)
Example nested : chain (fun i : 'I_2 => [set j : 'I_3 | (j <= i)%N]) ord0.
Proof.
move=> i i'; rewrite /side !inE !leq0n; have [ii|ii] := leqP i i'; [left | right];
by apply/subsetP => j; rewrite !inE => h; apply: leq_trans h _; rewrite // ltnW.
Qed.
End Line.
