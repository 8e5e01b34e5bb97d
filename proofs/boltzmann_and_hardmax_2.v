(* Page 16, page one_layer_memorization/boltzmann_and_hardmax, continued.
   Theorems 16.2 and 16.11 and Proposition 16.12: boltzmann.exact, .ids,
   .repeated. Algebraic numbers are the roots of polynomials with rational coefficients; the
   theorem of Lindemann and Weierstrass is a hypothesis, as on the page. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import identities exponential.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- Algebraic numbers: the roots of polynomials with rational coefficients ---- *)
Section Algebraic.
Variable R : realFieldType.
Definition alg (x : R) := exists2 p : {poly rat}, p != 0 & root (map_poly ratr p) x.
Lemma alg_nat n : alg n%:R.
Proof. by rewrite -(rmorph_nat (ratr_rmorphism R)); apply: algebraic_id. Qed.
Lemma algB x y : alg x -> alg y -> alg (x - y).
Proof. exact: algebraic_sub. Qed.
Lemma algM x y : alg x -> alg y -> alg (x * y).
Proof. exact: algebraic_mul. Qed.
End Algebraic.
Arguments alg_nat {R}.

(* ---- Exponentials of algebraic numbers: Theorems 16.2 and 16.11, Proposition 16.12 ---- *)
Section Lindemann.
Variables (R : realFieldType) (exp : R -> R).
Hypothesis expE : exponential exp.
Let expD := expD expE.        Let exp_gt0 := exp_gt0 expE.
(* The theorem of Lindemann and Weierstrass: for different algebraic numbers u_i the e^(u_i) are
   linearly independent over the algebraic numbers. *)
Definition Lindemann_Weierstrass := forall n (u c : 'I_n -> R), injective u ->
  (forall i, alg (u i)) -> (forall i, alg (c i)) -> \sum_i c i * exp (u i) = 0 ->
  forall i, c i = 0.
Hypothesis LW : Lindemann_Weierstrass.

Lemma algD (x y : R) : alg x -> alg y -> alg (x + y).
Proof.
move=> ax ay; have -> : x + y = x - (0%:R - y) by rewrite sub0r opprK.
by apply: algB => //; apply: algB => //; apply: alg_nat.
Qed.
Lemma alg_sum (I : finType) (P : pred I) (c : I -> R) :
  (forall i, alg (c i)) -> alg (\sum_(i | P i) c i).
Proof.
move=> ac; elim/big_rec: _ => [|i x _ ax]; first by apply: (alg_nat 0).
exact: algD.
Qed.

(* Lindemann and Weierstrass for terms with equal exponents: every group has coefficient zero. *)
Lemma groups (I : finType) (u c : I -> R) : (forall i, alg (u i)) -> (forall i, alg (c i)) ->
  \sum_i c i * exp (u i) = 0 -> forall v, \sum_(i | u i == v) c i = 0.
Proof.
move=> au ac sum0 v; pose l := undup [seq u i | i <- enum I].
have inl i : u i \in l by rewrite mem_undup map_f ?mem_enum.
have [vl|vl] := boolP (v \in l); last first.
  by rewrite big1 // => i /eqP uv; rewrite -uv inl in vl.
pose w (k : 'I_(size l)) := l`_k; pose g k := \sum_(i | u i == w k) c i.
have wI : injective w.
  by move=> k k' /eqP; rewrite nth_uniq ?undup_uniq // => /eqP/val_inj.
have aw k : alg (w k).
  have : w k \in l by rewrite mem_nth.
  by rewrite mem_undup => /mapP[i _ ->].
have ag k : alg (g k) by apply: alg_sum.
have vk : (index v l < size l)%N by rewrite index_mem.
have <- : w (Ordinal vk) = v by rewrite /w /= nth_index.
apply: (LW wI aw ag); rewrite -[RHS]sum0.
rewrite (partition_big (fun i => Ordinal (etrans (index_mem _ _) (inl i))) predT) //=.
apply: eq_bigr => k _; rewrite /g mulr_suml.
have same i : (u i == w k) = (Ordinal (etrans (index_mem _ _) (inl i)) == k).
  apply/eqP/eqP => [e|<-]; last by rewrite /w /= nth_index.
  by apply: val_inj; rewrite /= e /w index_uniq ?undup_uniq.
rewrite (eq_bigl _ _ same) [RHS](eq_bigl _ _ (fun i => esym (same i))).
by rewrite (eq_bigl _ _ (fun i => esym (same i))); apply: eq_bigr => i /eqP ->.
Qed.

(* Multisets: counts m k of different values z k. (16.1): the softmax average of them. *)
Variables (K : nat) (z : 'I_K -> R).
Hypothesis zI : injective z.
Hypothesis az : forall k, alg (z k).
Definition mass (m : 'I_K -> nat) s := \sum_k (m k)%:R * exp (s * z k).
Definition f (m : 'I_K -> nat) s := (\sum_k (m k)%:R * (z k * exp (s * z k))) / mass m s.

Lemma mass_gt0 m s k : (0 < m k)%N -> 0 < mass m s.
Proof.
move=> mk; rewrite /mass (bigD1 k) //= ltr_paddr //.
  by rewrite sumr_ge0 // => i _; rewrite mulr_ge0 ?ler0n // ltW.
by rewrite mulr_gt0 ?ltr0n.
Qed.

(* A largest value of e among the tokens of a predicate. *)
Lemma top (e : 'I_K -> R) (P : pred 'I_K) k0 : P k0 ->
  exists k, P k /\ forall i, P i -> e i <= e k.
Proof. by move=> Pk; case: (@arg_maxP _ _ _ k0 P e Pk) => k Pk' max; exists k. Qed.

(* If all groups of (16.3) vanish, the counts are proportional. No function theory is needed:
   compare the largest exponents. *)
Lemma proportional (m m' : 'I_K -> nat) k0 k1 : (0 < m k0)%N -> (0 < m' k1)%N ->
  (forall v, \sum_(p : 'I_K * 'I_K | z p.1 + z p.2 == v)
     (m p.1)%:R * (m' p.2)%:R * (z p.1 - z p.2) = 0) ->
  forall i j, (m i * m' j = m j * m' i)%N.
Proof.
move=> mk0 mk1 zero.
have [A [mA maxA]] := top z (P := fun k => (0 < m k)%N) mk0.
have [B [mB maxB]] := top z (P := fun k => (0 < m' k)%N) mk1.
(* The largest exponent z_A + z_B has one term, so A = B. *)
have AB : A = B.
  have := zero (z A + z B); rewrite (bigD1 (A, B)) //= big1 ?addr0.
    move/eqP; rewrite !mulf_eq0 !pnatr_eq0 !gtn_eqF //= subr_eq0 => /eqP; exact: zI.
  case=> i j /= /andP[/eqP e ne].
  have [mi|mi] := posnP (m i); first by rewrite mi !mul0r.
  have [mj|mj] := posnP (m' j); first by rewrite mj mulr0 mul0r.
  have zi := maxA i mi; have zj := maxB j mj.
  have iA : i = A.
    apply: zI; apply/eqP; rewrite eq_le zi -(ler_add2r (z B)) -e ler_add2l zj //.
  rewrite iA in e; move/addrI: e => /zI jB; by rewrite iA jB eqxx in ne.
rewrite -{B}AB in mB maxB *.
(* d = m'_A m - m_A m'. Its largest value, if any, lies below z_A. *)
pose d i : R := (m' A)%:R * (m i)%:R - (m A)%:R * (m' i)%:R.
suff d0 i : d i = 0.
  have nat i : (m' A * m i = m A * m' i)%N.
    by apply/eqP; rewrite -(eqr_nat R) !natrM -subr_eq0; apply/eqP/d0.
  move=> i j; apply/eqP; rewrite -(eqn_pmul2l mB) -(eqn_pmul2l mA) !(mulnA (m' A)) !nat.
  by rewrite -!mulnA [(m' i * _)%N]mulnC.
apply/eqP; apply: contraT => di; exfalso.
have [C [dC maxC]] := top z (P := fun i => d i != 0) di.
have dA : d A = 0 by rewrite /d mulrC subrr.
have CA : C != A by apply: contraNneq dC => ->; rewrite dA.
pose v := z C + z A.
have anti : \sum_(p : 'I_K * 'I_K | z p.1 + z p.2 == v)
    (m' p.1)%:R * (m' p.2)%:R * (z p.1 - z p.2) = 0.
  set T := \sum_(p | _) _; suff : T = - T.
    by move/eqP; rewrite -subr_eq0 opprK -mulr2n mulrn_eq0 /= => /eqP.
  rewrite {1}/T (reindex_inj (h := fun p : 'I_K * 'I_K => (p.2, p.1))) /=; last first.
    by case=> i1 j1 [i2 j2] [-> ->].
  rewrite -sumrN; apply: eq_big => [p|p _]; first by rewrite addrC.
  by rewrite [(m' p.2)%:R * _]mulrC -mulrN opprB.
(* The exponent z_C + z_A of the difference has one term. *)
have : \sum_(p : 'I_K * 'I_K | z p.1 + z p.2 == v) d p.1 * (m' p.2)%:R * (z p.1 - z p.2) = 0.
  transitivity ((m' A)%:R * (\sum_(p : 'I_K * 'I_K | z p.1 + z p.2 == v)
      (m p.1)%:R * (m' p.2)%:R * (z p.1 - z p.2)) - (m A)%:R * \sum_(p : 'I_K * 'I_K |
      z p.1 + z p.2 == v) (m' p.1)%:R * (m' p.2)%:R * (z p.1 - z p.2)).
    by rewrite !mulr_sumr -sumrB; apply: eq_bigr => p _; rewrite /d; ident.
  by rewrite anti zero !mulr0 subrr.
rewrite (bigD1 (C, A)) //= big1 ?addr0.
  move/eqP; rewrite !mulf_eq0 (negbTE dC) pnatr_eq0 gtn_eqF //= subr_eq0 => /eqP/zI/eqP.
  exact/negP.
case=> i1 j /= /andP[/eqP e ne].
have [-> | di1] := eqVneq (d i1) 0; first by rewrite !mul0r.
have [mj|mj] := posnP (m' j); first by rewrite mj mulr0 mul0r.
have zi := maxC i1 di1; have zj := maxB j mj.
have iC : i1 = C.
  by apply: zI; apply/eqP; rewrite eq_le zi -(ler_add2r (z A)) -/v -e ler_add2l zj.
rewrite iC in e; move/addrI: e => /zI jA; by rewrite iC jA eqxx in ne.
Qed.

(* Theorem 16.2 (Algebraic inverse temperatures). *)
Theorem algebraic_temperatures (m m' : 'I_K -> nat) s :
  (exists k, (0 < m k)%N) -> (exists k, (0 < m' k)%N) -> s != 0 -> alg s ->
  f m s = f m' s <-> forall i j, (m i * m' j = m j * m' i)%N.
Proof.
move=> [k0 mk0] [k1 mk1] s0 sa.
have P0 := gt_eqF (mass_gt0 s mk0); have P1 := gt_eqF (mass_gt0 s mk1).
(* (16.3), without exchanging i and j. *)
have sumE : (f m s == f m' s) = (\sum_(p : 'I_K * 'I_K)
    (m p.1)%:R * (m' p.2)%:R * (z p.1 - z p.2) * exp (s * (z p.1 + z p.2)) == 0).
  rewrite /f eqr_div ?P0 ?P1 // -[LHS]subr_eq0; congr (_ == 0); rewrite /mass.
  rewrite !big_distrlr /= !pair_bigA /=.
  rewrite [X in _ - X](reindex_inj (h := fun p : 'I_K * 'I_K => (p.2, p.1))) /=; last first.
    by case=> i1 j1 [i2 j2] [-> ->].
  by rewrite -sumrB; apply: eq_bigr => p _; rewrite [s * (_ + _)]mulrDr expD; ident.
split=> [/eqP|prop]; last first.
  apply/eqP; rewrite sumE; set T := (X in X == _); have : T = - T.
    rewrite {1}/T (reindex_inj (h := fun p : 'I_K * 'I_K => (p.2, p.1))) /=; last first.
      by case=> i1 j1 [i2 j2] [-> ->].
    rewrite -sumrN; apply: eq_bigr => p _; rewrite -!natrM -prop natrM [z p.2 + z p.1]addrC; ident.
  by move/eqP; rewrite -subr_eq0 opprK -mulr2n mulrn_eq0.
rewrite sumE => /eqP sum0; apply: (proportional mk0 mk1) => v.
have := groups (u := fun p : 'I_K * 'I_K => s * (z p.1 + z p.2)) _ _ sum0 (s * v).
rewrite (eq_bigl (fun p : 'I_K * 'I_K => z p.1 + z p.2 == v)) => [|p]; last first.
  by rewrite (inj_eq (mulfI s0)).
apply=> p; first by apply: algM => //; apply: algD.
by apply: algM; [apply: algM; apply: alg_nat | apply: algB].
Qed.

(* ... for multisets of one size if and only if they are equal. *)
Corollary one_size (m m' : 'I_K -> nat) s : (0 < \sum_k m k)%N ->
  (\sum_k m k = \sum_k m' k)%N -> s != 0 -> alg s -> f m s = f m' s <-> m =1 m'.
Proof.
move=> n0 eqn s0 sa.
have some (c : 'I_K -> nat) : (0 < \sum_k c k)%N -> exists k, (0 < c k)%N.
  rewrite lt0n sum_nat_eq0 negb_forall => /existsP[k]; rewrite -lt0n; by exists k.
rewrite algebraic_temperatures //; try by apply: some; rewrite -?eqn.
split=> [prop i|e i j]; last by rewrite !e mulnC.
(* Add up over j. *)
apply/eqP; rewrite -(eqn_pmul2r n0) {1}eqn !big_distrr /=.
by apply/eqP; rewrite (eq_bigr _ (fun j _ => prop i j)); apply: eq_bigr => j _; rewrite mulnC.
Qed.

(* The id t of token c in a multiset; a set is a multiset with counts 0 and 1. *)
Definition id (beta w : R) c m := z c + w * f m (beta * z c).
Definition ind (S : {set 'I_K}) k : nat := k \in S.

(* Two largest exponents of kappa z over a set of at least two tokens. *)
Lemma two_largest (kappa : R) (S : {set 'I_K}) : kappa != 0 -> (1 < #|S|)%N ->
  exists k1 k2, [/\ k1 \in S, k2 \in S, kappa * z k2 < kappa * z k1 &
    forall k, k \in S -> k != k1 -> kappa * z k <= kappa * z k2].
Proof.
move=> kap0 /card_gt1P[a [b [aS bS ab]]].
have [k1 [k1S max1]] := top (fun k => kappa * z k) (P := mem S) aS.
have [c [cS ck]] : exists c, c \in S /\ c != k1.
  have [e|ne] := eqVneq a k1; last by exists a.
  by exists b; split; rewrite // -e eq_sym.
have [k2 [/andP[k2S k21] max2]] :=
  top (fun k => kappa * z k) (P := fun k => (k \in S) && (k != k1)) (introT andP (conj cS ck)).
exists k1, k2; split=> // [|k kS kk1]; last by apply: max2; rewrite kS.
rewrite lt_neqAle max1 // andbT; apply: contra k21 => /eqP/(mulfI kap0)/zI ->; exact: eqxx.
Qed.

(* The core of Theorem 16.11: the two largest exponents of (16.12) decide. *)
Lemma two_queries (S S' : {set 'I_K}) (kappa kappa' D w : R) k1 k2 l1 l2 :
  kappa != kappa' -> w != 0 ->
  (k1 \in S /\ k2 \in S) -> (l1 \in S' /\ l2 \in S') ->
  kappa * z k2 < kappa * z k1 -> kappa' * z l2 < kappa' * z l1 ->
  (forall k, k \in S -> k != k1 -> kappa * z k <= kappa * z k2) ->
  (forall k, k \in S' -> k != l1 -> kappa' * z k <= kappa' * z l2) ->
  kappa * z k1 - kappa * z k2 <= kappa' * z l1 - kappa' * z l2 ->
  (forall v, \sum_(p : 'I_K * 'I_K | kappa * z p.1 + kappa' * z p.2 == v)
     (ind S p.1)%:R * (ind S' p.2)%:R * (D + w * (z p.1 - z p.2)) = 0) -> False.
Proof.
move=> kk w0 [k1S k2S] [l1S l2S] k21 l21 maxk maxl pq zero.
have kmax k : k \in S -> kappa * z k <= kappa * z k1.
  by move=> kS; have [->|/(maxk k kS) le] := eqVneq k k1; rewrite ?(le_trans le) // ltW.
have lmax k : k \in S' -> kappa' * z k <= kappa' * z l1.
  by move=> kS; have [->|/(maxl k kS) le] := eqVneq k l1; rewrite ?(le_trans le) // ltW.
have iS (T : {set 'I_K}) k : k \in T -> (ind T k)%:R = 1 :> R by rewrite /ind => ->.
have i0 (T : {set 'I_K}) k : k \notin T -> (ind T k)%:R = 0 :> R by rewrite /ind => /negbTE ->.
have kk1 : k2 != k1 by apply: contraTneq k21 => ->; rewrite ltxx.
have ll1 : l2 != l1 by apply: contraTneq l21 => ->; rewrite ltxx.
have kap0 : kappa != 0 by apply: contraTneq k21 => ->; rewrite !mul0r ltxx.
have kap0' : kappa' != 0 by apply: contraTneq l21 => ->; rewrite !mul0r ltxx.
have zIk i j : kappa * z i = kappa * z j -> i = j by move/(mulfI kap0)/zI.
have zIl i j : kappa' * z i = kappa' * z j -> i = j by move/(mulfI kap0')/zI.
(* The largest exponent has one term: D + w (z_k1 - z_l1) = 0. *)
have first : D + w * (z k1 - z l1) = 0.
  have := zero (kappa * z k1 + kappa' * z l1).
  rewrite (bigD1 (k1, l1)) //= (iS _ _ k1S) (iS _ _ l1S) !mul1r big1 ?addr0 // => -[k l] /=.
  case/andP=> /eqP e ne; have [kS|/i0 ->] := boolP (k \in S); last by rewrite !mul0r.
  have [lS|/i0 ->] := boolP (l \in S'); last by rewrite mulr0 mul0r.
  have ek : k = k1.
    apply: zIk; apply/eqP; rewrite eq_le kmax //= -(ler_add2r (kappa' * z l1)) -e.
    by rewrite ler_add2l lmax.
  by rewrite ek in e ne; move/addrI: e => /zIl el; rewrite el eqxx in ne.
(* The exponent with k_2 and l_1 has one more term at most, that of k_1 and l_2. *)
have := zero (kappa * z k2 + kappa' * z l1).
rewrite (bigD1 (k2, l1)) //= (iS _ _ k2S) (iS _ _ l1S) !mul1r.
have rest k l : kappa * z k + kappa' * z l = kappa * z k2 + kappa' * z l1 ->
    k \in S -> l \in S' -> (k, l) != (k2, l1) ->
    (k, l) = (k1, l2) /\ kappa * z k1 - kappa * z k2 = kappa' * z l1 - kappa' * z l2.
  move=> e kS lS ne; have [ek|kne] := eqVneq k k1; last first.
    have ek : k = k2.
      apply: zIk; apply/eqP; rewrite eq_le maxk //= -(ler_add2r (kappa' * z l1)) -e.
      by rewrite ler_add2l lmax.
    by rewrite ek in e ne; move/addrI: e => /zIl el; rewrite el eqxx in ne.
  have e' : kappa * z k1 - kappa * z k2 = kappa' * z l1 - kappa' * z l.
    transitivity (kappa * z k + kappa' * z l - (kappa * z k2 + kappa' * z l)).
      by rewrite ek; ident.
    by rewrite e; ident.
  have lne : l != l1.
    apply: contraTneq k21 => el; rewrite -subr_gt0 e' el subrr ltxx //.
  have el : l = l2.
    apply: zIl; apply/eqP; rewrite eq_le maxl //=.
    by rewrite -(ler_add2l (- (kappa' * z l1))) -ler_opp2 !opprD !opprK -e'.
  by rewrite -el ek.
have [p_q|pneq] := eqVneq (kappa * z k1 - kappa * z k2) (kappa' * z l1 - kappa' * z l2).
  rewrite (bigD1 (k1, l2)) /=; last first.
    rewrite xpair_eqE [k1 == _]eq_sym (negbTE kk1) /= andbT; apply/eqP.
    by rewrite -[kappa * z k1](subrK (kappa * z k2)) p_q; ident.
  rewrite (iS _ _ k1S) (iS _ _ l2S) !mul1r big1 ?addr0 => [second|[k l] /= /andP[/andP[/eqP e n1]
    n2]].
    (* z_k1 - z_k2 = z_l1 - z_l2, so kappa = kappa'. *)
    have same : z k1 - z k2 = z l1 - z l2.
      apply/eqP; rewrite -subr_eq0 -(mulrI_eq0 _ (mulfI w0)); apply/eqP.
      transitivity (2%:R * (D + w * (z k1 - z l1)) -
        (D + w * (z k2 - z l1) + (D + w * (z k1 - z l2)))); first by ident.
      by rewrite first second mulr0 subrr.
    move/eqP: p_q; rewrite -!mulrBr same (inj_eq (mulIf _)) ?(negbTE kk) //.
    by rewrite -same subr_eq0; apply: contra kk1 => /eqP/zI ->.
  have [kS|/i0 ->] := boolP (k \in S); last by rewrite !mul0r.
  have [lS|/i0 ->] := boolP (l \in S'); last by rewrite mulr0 mul0r.
  by have [ekl _] := rest k l e kS lS n1; rewrite ekl eqxx in n2.
rewrite big1 ?addr0 => [second|[k l] /= /andP[/eqP e n1]].
  have /eqP : w * (z k1 - z k2) = 0.
    transitivity ((D + w * (z k1 - z l1)) - (D + w * (z k2 - z l1))); first by ident.
    by rewrite first second subrr.
  by rewrite mulf_eq0 (negbTE w0) subr_eq0 => /eqP/zI e; rewrite e eqxx in kk1.
have [kS|/i0 ->] := boolP (k \in S); last by rewrite !mul0r.
have [lS|/i0 ->] := boolP (l \in S'); last by rewrite mulr0 mul0r.
by have [_ epq] := rest k l e kS lS n1; rewrite epq eqxx in pneq.
Qed.

(* (16.12), grouped by exponents. *)
Lemma equal_ids (m m' : 'I_K -> nat) beta w c c' : (0 < m c)%N -> (0 < m' c')%N ->
  alg beta -> alg w -> id beta w c m = id beta w c' m' ->
  forall v, \sum_(p : 'I_K * 'I_K | beta * z c * z p.1 + beta * z c' * z p.2 == v)
    (m p.1)%:R * (m' p.2)%:R * (z c - z c' + w * (z p.1 - z p.2)) = 0.
Proof.
move=> mc mc' ab aw; rewrite /id; set s := beta * z c; set s' := beta * z c' => e.
have P0 := gt_eqF (mass_gt0 s mc); have P1 := gt_eqF (mass_gt0 s' mc').
apply: (groups (u := fun p : 'I_K * 'I_K => s * z p.1 + s' * z p.2)).
- have [as_ as'] : alg s /\ alg s' by split; apply: algM.
  by move=> p; apply: algD; apply: algM.
- move=> p; apply: algM; first by apply: algM; apply: alg_nat.
  by apply: algD; [apply: algB | apply: algM => //; apply: algB].
pose N m s := \sum_k (m k)%:R * (z k * exp (s * z k)).
transitivity ((z c - z c') * (mass m s * mass m' s') + w * (N m s * mass m' s')
   - w * (mass m s * N m' s')).
  rewrite /N /mass !big_distrlr /= !pair_bigA /= !mulr_sumr -big_split -sumrB /=.
  by apply: eq_bigr => p _; rewrite expD; ident.
have fN : N m s = f m s * mass m s by rewrite /f divfK ?P0.
have fN' : N m' s' = f m' s' * mass m' s' by rewrite /f divfK ?P1.
transitivity ((z c + w * f m s - (z c' + w * f m' s')) * (mass m s * mass m' s')).
  by rewrite fN fN'; ident.
by rewrite e subrr mul0r.
Qed.

(* Theorem 16.11 (Scalar ids). Tokens z_k different, nonzero, algebraic; sets of at least two. *)
Theorem scalar_ids beta w c c' (S S' : {set 'I_K}) : (forall k, z k != 0) ->
  alg beta -> beta != 0 -> alg w -> w != 0 -> (1 < #|S|)%N -> (1 < #|S'|)%N ->
  c \in S -> c' \in S' -> id beta w c (ind S) = id beta w c' (ind S') -> c = c' /\ S = S'.
Proof.
move=> z0 ab b0 aw w0 S2 S2' cS cS' e.
have pos (T : {set 'I_K}) k : k \in T -> (0 < ind T k)%N by rewrite /ind => ->.
have [ec|cc] := eqVneq c c'.
  (* Equal queries: Theorem 16.2. *)
  split=> //; rewrite -ec in e.
  have /algebraic_temperatures prop : f (ind S) (beta * z c) = f (ind S') (beta * z c).
    by apply: (mulfI w0); apply: (addrI (z c)).
  have {prop}prop : forall i j, (ind S i * ind S' j = ind S j * ind S' i)%N.
    apply: prop; [exists c; exact: pos|exists c'; exact: pos|by rewrite mulf_neq0|exact: algM].
  apply/setP => k; rewrite -ec in cS'; have := prop c k; rewrite /ind cS cS' mul1n muln1.
  by case: (k \in S) (k \in S') => -[].
exfalso; have zero := equal_ids (pos _ _ cS) (pos _ _ cS') ab aw e.
have kap k : beta * z k != 0 by rewrite mulf_neq0.
have kk : beta * z c != beta * z c' by rewrite (inj_eq (mulfI b0)) (inj_eq zI).
have [k1 [k2 [k1S k2S k21 maxk]]] := two_largest (kap c) S2.
have [l1 [l2 [l1S l2S l21 maxl]]] := two_largest (kap c') S2'.
have [le|lt] := leP (beta * z c * z k1 - beta * z c * z k2)
                    (beta * z c' * z l1 - beta * z c' * z l2).
  exact: (two_queries kk w0 (conj k1S k2S) (conj l1S l2S) k21 l21 maxk maxl le zero).
(* The other case with the two sets exchanged. *)
have kk' : beta * z c' != beta * z c by rewrite eq_sym.
have zero' := equal_ids (pos _ _ cS') (pos _ _ cS) ab aw (esym e).
exact: (two_queries kk' w0 (conj l1S l2S) (conj k1S k2S) l21 k21 maxl maxk (ltW lt) zero').
Qed.

Lemma f_le m s c b : (0 < m c)%N -> (forall k, z k <= b) -> f m s <= b.
Proof.
move=> mc zb; rewrite /f ler_pdivr_mulr ?(mass_gt0 s mc) // /mass mulr_sumr.
apply: ler_sum => k _; rewrite [b * _]mulrCA ler_wpmul2l ?ler0n // ler_wpmul2r // ltW //.
Qed.
Lemma f_ge m s c b : (0 < m c)%N -> (forall k, b <= z k) -> b <= f m s.
Proof.
move=> mc zb; rewrite /f ler_pdivl_mulr ?(mass_gt0 s mc) // /mass mulr_sumr.
apply: ler_sum => k _; rewrite [b * _]mulrCA ler_wpmul2l ?ler0n // ler_wpmul2r // ltW //.
Qed.

(* Proposition 16.12, second part: for small |w| all ids of multisets of one size differ. *)
Theorem small_weight beta w c c' (m m' : 'I_K -> nat) : (forall k, z k != 0) ->
  alg beta -> beta != 0 -> alg w -> w != 0 ->
  (forall i j k l, i != j -> `|w| * (z k - z l) < `|z i - z j|) ->
  (\sum_k m k = \sum_k m' k)%N -> (0 < m c)%N -> (0 < m' c')%N ->
  id beta w c m = id beta w c' m' -> c = c' /\ m =1 m'.
Proof.
move=> z0 ab b0 aw w0 small eqn mc mc' e.
have [ec|cc] := eqVneq c c'.
  split=> //; rewrite -ec in e; apply/(one_size (s := beta * z c)) => //.
  - by rewrite (bigD1 c) //= addn_gt0 mc.
  - by rewrite mulf_neq0.
  - exact: algM.
  by apply: (mulfI w0); apply: (addrI (z c)).
(* Ids of different queries lie in disjoint intervals. *)
exfalso; have [u [_ zu]] := top z (P := predT) (k0 := c) isT.
have [l [_ zl]] := top (fun k => - z k) (P := predT) (k0 := c) isT.
have {}zl k : z l <= z k by rewrite -ler_opp2 zl.
have := small c c' u l cc; rewrite ltNge => /negP; apply.
have -> : z c - z c' = w * (f m' (beta * z c') - f m (beta * z c)).
  transitivity (id beta w c m - w * f m (beta * z c) - z c'); first by rewrite /id; ident.
  by rewrite e /id; ident.
rewrite normrM ler_wpmul2l // ler_norml; apply/andP.
have fu := f_le (beta * z c) mc (fun k => zu k isT); have fl := f_ge (beta * z c) mc zl.
have fu' := f_le (beta * z c') mc' (fun k => zu k isT); have fl' := f_ge (beta * z c') mc' zl.
by rewrite opprB; split; apply: ler_sub.
Qed.
End Lindemann.

(* Proposition 16.12, first part: w = 2, token 1 in {1, 1, 4, 4} and token 2 in {1/2, 2, 2, 7/2}.
   The average of a list of numbers with weights e^(s x). *)
Section Repeated.
Variables (R : realFieldType) (exp : R -> R).
Hypothesis expE : exponential exp.
Let expD := expD expE.        Let exp_gt0 := exp_gt0 expE.
Definition average (xs : seq R) s :=
  (\sum_(x <- xs) x * exp (s * x)) / \sum_(x <- xs) exp (s * x).
Theorem repeated beta :
  1 + 2%:R * average [:: 1; 1; 4%:R; 4%:R] (beta * 1) =
  2%:R + 2%:R * average [:: 2%:R^-1; 2%:R; 2%:R; 7%:R / 2%:R] (beta * 2%:R).
Proof.
(* y = e^(3 beta); the logits are beta, beta, 4 beta, 4 beta and beta, 4 beta, 4 beta, 7 beta. *)
pose e := exp beta; pose y := exp (3%:R * beta).
have h : 2%:R * 2%:R^-1 = 1 :> R by rewrite mulfV ?pnatr_eq0.
have E4 : exp (beta * 4%:R) = e * y by rewrite /e /y -expD; congr exp; ident.
have E4' : exp (beta * 2%:R * 2%:R) = e * y by rewrite -E4; congr exp; ident.
have E1 : exp (beta * 1 * 1) = e by rewrite !mulr1.
have E1' : exp (beta * 2%:R * 2%:R^-1) = e by rewrite -mulrA h mulr1.
have E7 : exp (beta * 2%:R * (7%:R / 2%:R)) = e * y * y.
  rewrite /e /y -!expD; congr exp; transitivity (beta * (2%:R * 2%:R^-1) * 7%:R); first by ident.
  by rewrite h; ident.
rewrite /average !big_cons !big_nil E1 E1' E4' E7 ?[beta * 1]mulr1 E4 -/e !addr0.
have e0 : 0 < e by apply: exp_gt0. have y0 : 0 < y by apply: exp_gt0.
set A := (X in 1 + 2%:R * (X / _)); set B := (X in 1 + 2%:R * (_ / X)).
set C := (X in _ = 2%:R + 2%:R * (X / _)); set D := (X in _ = 2%:R + 2%:R * (_ / X)).
have B0 : B != 0 by rewrite gt_eqF // /B; do ?[exact: e0|exact: y0|apply: addr_gt0|apply: mulr_gt0].
have D0 : D != 0 by rewrite gt_eqF // /D; do ?[exact: e0|exact: y0|apply: addr_gt0|apply: mulr_gt0].
(* Times both denominators. *)
apply: (mulIf (mulf_neq0 B0 D0)).
transitivity ((B + 2%:R * (A / B * B)) * D); first by ident.
transitivity ((2%:R * D + 2%:R * (C / D * D)) * B); last by ident.
rewrite !divfK // /A /B /C /D.
have -> : 2%:R * (2%:R^-1 * e + (2%:R * (e * y) + (2%:R * (e * y) + 7%:R / 2%:R * (e * y * y)))) =
  (2%:R * 2%:R^-1) * (e + 7%:R * (e * y * y)) + 8%:R * (e * y) by ident.
by rewrite h; ident.
Qed.
End Repeated.
